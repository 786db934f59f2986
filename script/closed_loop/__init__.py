"""What ./script/closed-loop is made of: the runs, what they are judged by, and the plot."""
