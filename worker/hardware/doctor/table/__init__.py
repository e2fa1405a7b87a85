"""What the doctor shows above its rows: the software with what the cards need, and each GPU now."""
