// Package ipc passes memory from one worker to another of the same user: what a program exports by
// cuIpcGetMemHandle and another one opens. A token is what travels between the programs, in 64
// bytes of which they know nothing; it names the exporting session, and a grant of that session, by
// random numbers.
//
// A session that exports serves its grants on an abstract socket that is named by its random
// number: so the name needs no folder, ends with the worker, and is the same again after a restore.
// Both sides ask the kernel who the other one is, and refuse another user. phosd has no part in it.
//
// It does not know what memory is: a grant is a file and a few numbers. Read message.go first.
package ipc
