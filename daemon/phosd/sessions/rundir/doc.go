// Package rundir is phosd's runtime directory: the files of sessions, the control sockets of
// workers and the records by which the next phosd adopts the workers.
//
//	/run/phos/phosd.sock             0666  programs and pos_cli
//	/run/phos/phosd.lock             0600  held by the phosd of this directory; stays after a stop
//	/run/phos/last                   0600  the number of the last session; stays after a stop
//	/run/phos/sessions/              a tmpfs of its own
//	/run/phos/sessions/ID/session    0600  of the program's user; see hijack/wire
//	/run/phos/sessions/ID/arena      0600  of the program's user
//	/run/phos/sharing/UID/           0711  of the user: sockets of workers that export memory
//	/run/phos/control/ID.sock        root only: phosd speaks to the worker here
//	/run/phos/control/tree-NAME      root only: the restorer of a restored tree listens here
//	/run/phos/state/ID.json          root only: Record
//	/run/phos/ledger                 root only, but each worker has it open: see daemon/gpu/ledger
//	/run/phos/work/                  root only: a tmpfs for small work, see daemon/phosd/statedir
//	/run/phos/criu/                  root only: kernel features for CRIU; see criu/runner
//
// The directories are root's and users cannot add or rename anything in them, so that phosd opens
// its paths without following a user's link. The content of a user's file is not trusted: phosd
// writes one word into it when a worker has died, and never reads or maps it. A user may make the
// file longer; the session ends then (memory.go).
package rundir
