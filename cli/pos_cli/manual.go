package main

// manualEnd follows the verbs in the manual page; the socket and the log are filled in.
const manualEnd = `.SH EXIT STATUS
0: done. 1: failed; standard error has the reason. 2: the command line is wrong. 3: no phosd answers.
pos_cli run ends with the status of
its command: 127 if it does not exist, 126 if it cannot be executed. A \-\-restore without \-\-detach ends with the program's exit status, or 128 + n if signal n ended it.
.SH EXAMPLES
.nf
pos_cli \-\-start \-\-gpus soft:1
pos_cli run \-\- python3 train.py
pos_cli ps
pos_cli \-\-status
pos_cli \-\-pre\-dump \-\-dir /data/ckpt \-\-pid 4711
pos_cli \-\-dump \-\-dir /data/ckpt \-\-pid 4711
pos_cli images
pos_cli image list /data/ckpt
pos_cli image check /data/ckpt
pos_cli \-\-restore \-\-dir /data/ckpt
pos_cli image prune /data/ckpt \-\-keep 3
pos_cli rm /data/ckpt
pos_cli \-\-stop
.fi
.SH ENVIRONMENT
.TP
.B PHOS_SOCKET
the socket of phosd, instead of %s; also for libphos.so. The field daemon_addr of a program's pos.yaml overrides it.
.TP
.B PHOS_JOB
text in the form of pos.yaml; its keys replace those of the file. pos_cli run \-\-name and \-\-checkpoint set it.
daemon_addr is not read here
.TP
.B PHOS_LOG
what libphos.so prints on standard error: error, warn (the default) or debug
.TP
.B PHOS_COPY
shim: the program copies all memory to and from the GPU itself, as it does if the kernel forbids the worker to read
the program's memory; for tests
.SH FILES
.TP
.B /etc/phos/phosd.toml
configuration of phosd; see
.BR phosd.toml (5)
.TP
.B pos.yaml
in a program's working directory; see
.BR pos.yaml (5)
.TP
.B %s
log of a phosd that runs in the background, unless log.file is set
.SH SEE ALSO
.BR phosd (8),
.BR phosd.toml (5),
.BR pos.yaml (5)
`
