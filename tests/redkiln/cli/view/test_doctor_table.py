import io

from rich.console import Console

from redkiln.cli.view.doctor_table import print_components, print_gpus
from redkiln.views.hardware import Component, GpuProcess, GpuReading

GIB = 1024**3
CARD = GpuReading(
    name="Radeon RX 7900 XTX",
    gfx="gfx1100",
    busy_ratio=0.02,
    memory_used_bytes=GIB,
    memory_bytes=24 * GIB,
    celsius=45.0,
    power_watts=14.0,
    power_cap_watts=339.0,
    link_width=8,
    link_max_width=16,
    link_speed="16.0 GT/s PCIe",
    has_resizable_bar=False,
    processes=[GpuProcess(pid=4211, name="ollama", memory_bytes=3 * GIB)],
)


def shown(draw, *content, width=80):
    console = Console(file=io.StringIO(), width=width)
    draw(console, content)
    return console.file.getvalue()


def test_a_gpu_takes_one_line_of_eighty_columns():
    lines = shown(print_gpus, CARD).splitlines()
    assert len(lines) == 3
    for words in ("RX 7900 XTX gfx1100", "1.0/24.0 GiB", "45 °C", "14/339 W", "x8 of x16 16 GT/s"):
        assert words in lines[1]
    assert "ollama (4211)" in lines[2]


def test_missing_values_are_dashes_and_errors_are_counted():
    text = shown(print_gpus, GpuReading(name="gfx942", gfx="gfx942", has_ecc=True, num_errors=2))
    assert "2 errors" in text
    assert "None" not in text
    assert shown(print_gpus, GpuReading(name="a GPU", has_ecc=True)).splitlines()[1].endswith("on ")


def test_components_show_here_and_needed():
    text = shown(
        print_components,
        Component(name="kernel", found="6.14", needed="6.18.4", verdict="too old"),
        Component(name="driver", needed="any", verdict="missing"),
        Component(name="torch", found="2.13.0", needed="2.13", verdict="fits"),
    )
    assert "✗ too old" in text
    assert "✗ missing" in text
    assert "✓" in text


def test_components_without_a_need_have_no_header():
    assert "needed" not in shown(print_components, Component(name="kernel", found="6.1"))
