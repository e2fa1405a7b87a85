from redkiln.client.sse import Message, parse, split_lines


def messages(*chunks):
    return list(parse(split_lines(chunks)))


def test_a_message_has_its_id_kind_and_data():
    stream = b"id: 7\nevent: phase\ndata: {}\n\n"
    assert messages(stream) == [Message("phase", "{}", "7")]


def test_cuts_between_chunks_do_not_matter():
    stream = 'id: 7\r\nevent: phase\r\ndata: "é"\r\n\r\nevent: end\ndata: {}\n\n'.encode()
    whole = messages(stream)
    assert whole == [Message("phase", '"é"', "7"), Message("end", "{}", None)]
    assert messages(*(stream[i : i + 1] for i in range(len(stream)))) == whole


def test_a_message_cut_off_by_the_connection_is_dropped():
    assert messages(b"id: 1\ndata: a\n\nid: 2\ndata: b\n") == [Message("message", "a", "1")]


def test_comments_are_not_messages():
    assert messages(b": still here\n\n: and again\n\n") == []


def test_lines_of_data_are_joined():
    assert messages(b"data: a\ndata: b\n\n") == [Message("message", "a\nb")]


def test_unicode_line_separators_inside_json_do_not_split_a_line():
    text = '{"text": "a\u2028b\x0cc\x85d"}'
    assert messages(f"data: {text}\n\n".encode()) == [Message("message", text)]
