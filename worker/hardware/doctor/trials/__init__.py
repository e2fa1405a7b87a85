"""Operations that the doctor tries on a device, each in a process with a time limit."""
