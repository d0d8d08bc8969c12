"""The search for the architecture of the paper's networks (Sec. 6): candidates, their scores, and what was found."""
