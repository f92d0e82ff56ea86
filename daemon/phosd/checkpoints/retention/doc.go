// Package retention removes images of ended programs from the directory of the policy in phosd.toml
// (checkpoint.dir): those that are older than checkpoint.keep_ended, and, if their user's share of
// bytes is used up, the oldest ones. Images without a generation are removed at once.
//
//   - Which images: directories DIR/UID/JOB-PID-TIME (policy.Program.Name) that hold nothing but an
//     image. Other directories of users stay.
//   - Never the image of a program that runs, or that is to be restored after the machine's
//     restart, and never one that is open: store.Remove needs it for itself.
//   - The age counts from when phosd first saw that no program uses the image. A durable index has
//     that time, so neither a restart of phosd nor one of the machine makes an image older.
//   - Another machine may share DIR. Its images are removed by age only, which counts from their
//     last checkpoints.
//   - Users own the directories below DIR, and may replace them at any time. So names are opened
//     and removed with the user's rights, without links and mounts, and only empty directories and
//     files of images are removed.
//
// A look at all images takes place at the start, then at most every minInterval.
//
// Lock order: a user's lock before Images.mu. Tested by tests/policy and tests/hostile. Read
// Images.
package retention
