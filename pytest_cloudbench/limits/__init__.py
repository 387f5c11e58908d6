"""What is promised: specs, rules, ceilings and the envelope, as pure values. No I/O."""
