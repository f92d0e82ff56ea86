"""asked: answers a line of standard input with a line of standard output: it runs that many steps,
then prints the state of the vector. "end N" ends it with status N. Arguments add to it: none (no
vector, and no GPU), files (data files that are open at some offset), tcp PORT (a connection to
the outside), device PATH (an open device)."""
import os
import socket
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
os.closerange(3, 1024)


class Files:
    """A file that is read from its offset, and result files that are written at their offsets in
    two ways."""

    def __init__(self):
        self.data = open("data", "rb")
        self.results = open("results", "wb")
        self.log = open("log", "ab")
        self.other = open("other", "r+b")
        self.count = 0

    def step(self):
        record = self.data.read(8)
        assert int(record) == self.count, (record, self.count)
        self.results.write(b"%d " % (self.count * self.count))
        self.results.flush()
        self.log.write(b"%d\n" % self.count)
        self.log.flush()
        if self.count % 3 == 0:
            self.other.seek(8 * self.count)
            self.other.write(b"%07d\n" % -self.count)
            self.other.flush()
        self.count += 1


vector, files, words = None, None, sys.argv[1:]
if "none" not in words:
    import gpu
    vector = gpu.Vector()
if "files" in words:
    files = Files()
if "tcp" in words:
    connection = socket.create_connection(("127.0.0.1", int(words[words.index("tcp") + 1])))
if "device" in words:
    device = open(words[words.index("device") + 1], "rb", 0)
count = 0
print("ready", flush=True)
for line in sys.stdin:
    word, _, number = line.strip().partition(" ")
    if word == "end":
        sys.exit(int(number))
    for _ in range(int(word)):
        count += 1
        if vector:
            vector.step()
        if files:
            files.step()
    if vector:
        assert vector.steps == count
        print(vector.check(), flush=True)
    else:
        print(count, flush=True)
sys.exit(99)
