// Package checkpoints takes checkpoints and restores them, for requests and for policies. Package
// ckpt walks the steps; this package finds the sessions (daemon/phosd/sessions), checks whose
// rights count, and connects the steps to the workers.
//
//   - checkpoint.go takes a checkpoint; device.go makes the ckpt.GPU of each session.
//   - restore.go restores an image; worker.go makes the ckpt.GPURestore of each session.
//   - prepared.go keeps images whose restore has been started in advance.
//   - admit.go refuses requests, before they leave any trace.
//   - schedule.go takes the checkpoints of policies, turns.go says whose turn it is, directory.go
//     where to, and drain.go takes those at the end of phosd; family.go says which programs are
//     saved together.
//   - wanted.go says which images must stay, and boot.go restores programs after a restart of the
//     machine.
//   - images.go finds the obstacles of a restore.
//
// The packages below: archive opens and writes image directories, policy says when a checkpoint is
// due and where it goes, preflight finds obstacles, restored keeps the restored trees, retention
// removes images of ended programs, onboot remembers what is restored after a restart of the
// machine, and workerclient speaks to workers.
//
// Lock order: the locks of turns, directories, prepared and restoring are each taken alone.
// directories and prepared call package quota, which has one lock.
//
// Tested by daemon/phosd, tests/checkpoint and tests/policy. Read Checkpoints and parts.go.
package checkpoints
