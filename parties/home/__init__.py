"""What a party or an analyst keeps in its state folder: keys, cards, people, policy, papers, the log's pen."""
