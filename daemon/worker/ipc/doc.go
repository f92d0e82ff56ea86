// Package ipc shares device memory and events between sessions of the same user, as CUDA IPC does:
// one program exports by cuIpcGetMemHandle or cuIpcGetEventHandle, and another one opens the
// handle. A handle holds a token: two random numbers that name the exporting session and one of its
// grants.
//
// An exporting session serves its grants on a unix socket that is named by its random number, in a
// directory in which only its user can bind: another user cannot take the name before a restore
// needs it again. Both sides check the peer's credentials and refuse other users. phosd makes the
// directory and is not involved otherwise.
//
// The package knows nothing about memory: a grant is a file and a few numbers. Read message.go
// first.
package ipc
