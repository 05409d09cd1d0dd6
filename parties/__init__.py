"""What runs at a party: state folder, blocks, link, worker, supervisor, the datasite adapter and the command line.

Import the modules one by one; nothing is imported here, so that `parties.shim` stays light inside the syft process.
"""
