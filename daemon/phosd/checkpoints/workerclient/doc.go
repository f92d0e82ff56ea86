// Package workerclient is phosd's side of a worker's part in a checkpoint and a restore: Device is
// a ckpt.GPU over a worker's control stream, Restore follows a worker that restores its session.
// The worker's side is in daemon/worker. Device and Restore have one lock each; no two are held at
// the same time.
package workerclient
