// Package rundir is phosd's runtime directory: where the files of sessions, the control sockets of
// workers and the records for adopting workers stand.
//
//	/run/phos/phosd.sock             0666  programs and pos_cli
//	/run/phos/phosd.lock             0600  held by the one phosd of this directory; stays after a stop
//	/run/phos/last                   0600  the number of the last session; stays after a stop
//	/run/phos/sessions/              a tmpfs of its own
//	/run/phos/sessions/ID/session    0600  of the program's user; see hijack/wire
//	/run/phos/sessions/ID/arena      0600  of the program's user
//	/run/phos/control/ID.sock        root only: phosd speaks to the worker here
//	/run/phos/state/ID.json          root only: Record
//	/run/phos/ledger                 root only: memory accounting, see daemon/gpu/ledger
//	/run/phos/criu/                  root only: what CRIU knows of the kernel, where /run is no tmpfs; see criu/runner
//
// The directories are root's and users cannot add or rename anything in them, so phosd may open its
// paths without following a user's trick. What is in a user's file is still the user's: phosd
// writes one word into it when a worker has died, and never reads or maps it. He may make it
// longer: who does loses his session (holding.go).
package rundir
