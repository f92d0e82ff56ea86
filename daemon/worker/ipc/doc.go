// Package ipc shares device memory and events between sessions of the same user, as CUDA IPC does:
// one program exports by cuIpcGetMemHandle or cuIpcGetEventHandle, and another one opens the
// handle. A handle holds a token: two random numbers that name the exporting session and one of its
// grants.
//
// An exporting session serves its grants on an abstract unix socket that is named by its random
// number. So the socket needs no directory, disappears with the worker, and has the same name after
// a restore. Both sides check the peer's credentials and refuse other users. phosd is not involved.
//
// The package knows nothing about memory: a grant is a file and a few numbers. Read message.go
// first.
package ipc
