"""What a run leaves: every test's commands, answers, measurements and verdicts, chained, without secrets."""
