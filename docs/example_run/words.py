"""What the page says of each kind of message and of each kind of line in a log."""

from collections.abc import Mapping

MESSAGES: Mapping[str, str] = {
    "PsiRequest": "The bank's 157 keys, blinded with a secret of this run. The retailer learns how many there are.",
    "PsiSetup": "The retailer's 173 keys, blinded with a secret of its own.",
    "PsiResponse": "The bank's blinded keys, blinded once more. Now the bank can tell which of its keys are common.",
    "PsiMatches": "One tag for each common key, made with a secret of this run.",
    "PsiSecret": "That secret. Both sort the common people by their tags: from here on, people are row numbers.",
    "Splits": "Whether each common person trains, validates or tests. "
    "A person is used only where both say the same.",
    "MemoryViews": "Copies of the retailer's representations, at steps 0 and 5 and at the end. "
    "From them the bank estimates the missing half of people whom only it knows.",
    "PassiveViews": "The retailer's representations of this step's people: "
    "60 aligned and 73 of its own, 8 numbers each.",
    "ViewGradients": "How the loss would change with each of these numbers. Labels and losses stay at the bank.",
    "TestViews": "Representations of the 40 test people. The bank scores them with its own labels.",
    "AloneViews": "Representations of all 73 people whom only the retailer knows, for the final pseudo labels.",
}

EVENTS: Mapping[str, str] = {
    "peer_added": "The owner accepted a card after comparing its fingerprint. "
    "A request that names anybody else is refused.",
    "block_registered": "A version of a block was stored, to be published. "
    "It says which data a request can mean; the rows are rounded up.",
    "server_started": "The datasite came up. Nothing can be asked of it before this line.",
    "private_seed_injected": "A known seed replaced the secret one, so that a simulation gives the same bits. "
    "In a real log this line is an alarm.",
    "user_added": "The analyst got an account, which may see schema and mock rows and submit requests.",
    "login": "The analyst's account was used at the datasite. A refused try has its line too.",
    "submitted": "A request arrived, and its signature fits the accepted card. Nothing has run.",
    "viewed": "The owner opened the review text. An approval without this line before it was given unread.",
    "approved": "A person signed this digest, with a reason.",
    "countersigned": "The party confirms that its own people approved under its own policy, whose version stands here.",
    "start_refused": "Somebody tried to start what may not run. "
    "The reason stands here; the analyst gets only a code.",
    "started": "Approvals, expiry, code, block and number of runs were checked, and a run was reserved.",
    "handshake": "The other worker showed the pinned certificate, the same digest and all approvals.",
    "handshake_refused": "Somebody came to the worker's port who isn't the other party with this run, and was refused.",
    "head_received": "The other party's signed log head, kept whole: "
    "with it, a cut or rewritten log of that party is noticed.",
    "messages_reserved": "Written before the first message. After a crash all of these count as used, "
    "so that a log never tells too little.",
    "psi_started": "Before the worker starts: which alignment with this peer it is of how many allowed, "
    "and whether a set of keys has changed since the last one.",
    "psi_finished": "The tag of the alignment. Equal tags in both logs mean the same people in the same order. "
    "A run that ends before has this line too, failed, with the messages that had gone.",
    "program_finished": "The program has ended: messages, bytes and one hash over all of them, each way. "
    "The closing head covers this line; a goodbye that is lost still fails the run.",
    "run_finished": "How the run ended, the one such line of a run, with the same sums as the line of the program.",
    "temporary_deleted": "What the run had kept only for itself was deleted, blinded keys and their secret included.",
    "result_suppressed": "How many places of the report hold no number, by the rule that held it back. "
    "What would have stood there isn't told.",
    "result_released": "The analyst fetched the released numbers. Every fetch has its line.",
    "server_stopped": "The datasite went down in order. A log without this line at its end tells of a crash.",
}
