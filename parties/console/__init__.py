"""The review console: a web application on 127.0.0.1 for a party's owners, reviewers and auditors, without scripts.

It shows what the commands show and decides as they do, through the supervisor's socket and under the person's own key.
"""
