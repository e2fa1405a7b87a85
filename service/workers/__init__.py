"""Workers: who says hello, who is heard of, and who is given which job."""
