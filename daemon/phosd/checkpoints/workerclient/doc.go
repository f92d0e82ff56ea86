// Package workerclient is phosd's side of a worker's part in a checkpoint and a restore:
// ckpt.Device over the control stream of a worker that runs, and what waits for one that makes a
// session again. What the worker does is in daemon/worker.
package workerclient
