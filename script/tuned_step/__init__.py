"""What ./script/tuned-step is made of: the runs, and what they are judged by."""
