"""Subject keys: how cells of any type become one exact text per person, under a rule that both parties share."""
