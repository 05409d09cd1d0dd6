"""What owners, reviewers, analysts and researchers do, apart from how they type it."""
