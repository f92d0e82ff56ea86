// Package policy decides which checkpoints of a program are taken without a request, when, and to
// which directory, and opens that directory.
//
//   - Which policy: the section checkpoint of the program's pos.yaml if there is one, or else that
//     of phosd.toml.
//   - When: at an interval, counted from the last checkpoint and spread so that programs are not
//     all saved at the same time; and at occasions (config.Occasions), which package checkpoints
//     knows.
//   - Where: pos.yaml names the image directory in the program's own view of the file system.
//     phosd.toml names a directory with one subdirectory for each user, and below that one for
//     each program.
//
// Due is a pure function. Read Of, then Due, then place.go.
package policy
