package main

// manualEnd is what stands in the manual page behind the verbs: with the socket and the log where
// they are filled in.
const manualEnd = `.SH EXIT STATUS
0: done. 1: it did not work, and standard error says why. 2: the command line is wrong. 3: no phosd answers.
A \-\-restore without \-\-detach ends with the program's status; 128 + n: signal n ended it.
.SH EXAMPLES
.nf
pos_cli \-\-start \-\-target daemon \-\-gpus soft:1
eval "$(pos_cli \-\-env)"
env $phos python3 train.py
pos_cli \-\-status
pos_cli \-\-pre\-dump \-\-dir /data/ckpt \-\-pid 4711
pos_cli \-\-dump \-\-dir /data/ckpt \-\-pid 4711
pos_cli image list /data/ckpt
pos_cli image check /data/ckpt
pos_cli \-\-restore \-\-dir /data/ckpt
pos_cli image prune /data/ckpt \-\-keep 3
pos_cli \-\-clean \-\-dir /data/ckpt
pos_cli \-\-stop
.fi
.SH ENVIRONMENT
.TP
.B PHOS_SOCKET
the socket of phosd, instead of %s; libphos.so heeds it too. The field daemon_addr of a program's pos.yaml wins over it.
.TP
.B PHOS_LOG
what libphos.so says on standard error: error, warn (the default) or debug
.TP
.B PHOS_COPY
shim: the program copies everything between its memory and the GPU itself, as it does where the kernel forbids the worker
to read the program's memory; for tests
.SH FILES
.TP
.B /etc/phos/phosd.toml
configuration of phosd; pos_cli \-\-start \-\-print\-config shows all keys
.TP
.B pos.yaml
in a program's working directory: job_name, daemon_addr, log_path, and checkpoint, the policy of checkpoints that nobody asks for:
dir (where the program would find it; {job}, {pid} and {rank} stand for what they say), every (10m), keep (3), bandwidth (500MiB
a second) and on (exit\-signal: phosd is told to end; drain: pos_cli \-\-stop \-\-drain). The table checkpoint of phosd.toml has the same
for programs that say nothing; there each user gets a directory below dir, and each program one below that
.TP
.B %s
log of a phosd that was started in the background and has no log file of its own
`
