"""The policy as a supervisor reads it: a change since it was last read goes into the log before the policy is used.

The last text is kept beside it as `policy.seen.toml`. The owner may edit policy.toml at any moment, with any editor:
so the entry is made by whoever first acts on the new rules, and nothing is decided by rules that aren't in the log.
"""

import threading

from parties.home.journal import Actor, Journal
from parties.home.policy import Policy, changed_rules, parse_policy, policy_text, read_policy
from parties.home.private_files import read_toml, write_private
from parties.home.state import POLICY_SEEN, State
from protocols.audit import AuditEvent
from protocols.errors import ConfigError, StateError


class WatchedPolicy:
    """Reads one party's policy; may be used by several threads."""

    def __init__(self, state: State, journal: Journal) -> None:
        self._state = state
        self._journal = journal
        self._reading = threading.Lock()

    def read(self) -> Policy:
        """The policy of now. ConfigError as `read_policy`; AuditError when its change can't be logged: then it doesn't
        hold yet, and neither does the old one."""
        with self._reading:
            policy, before = read_policy(self._state.folder), self._seen()
            if before is None or before.version != policy.version:
                self._record(before, policy)
            return policy

    def _seen(self) -> Policy | None:
        """The policy that was last logged; None when it isn't known, or is of a release that had other rules."""
        path = self._state.folder / POLICY_SEEN
        try:
            return parse_policy(read_toml(path), str(path))
        except (StateError, ConfigError):  # it binds nobody: the next entry then names all rules as changed
            return None

    def _record(self, before: Policy | None, policy: Policy) -> None:
        owner = Actor(who="owner", role="owner", organisation=self._state.organisation, origin="policy.toml")
        self._journal.ok(
            AuditEvent.CONFIG_CHANGED,
            owner,
            "policy",
            before="unknown" if before is None else before.version,
            after=policy.version,
            rules="all" if before is None else ", ".join(changed_rules(before, policy)),
        )
        write_private(self._state.folder / POLICY_SEEN, policy_text(policy))
