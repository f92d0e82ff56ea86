// Package trace records which calls of a program create, use and destroy which objects: as JSON,
// one object a line.
//
// The first line is a Head. Then follows a Have line for each object that already exists. Then
// comes a Call line for each call, in the order of execution. A Call line without a name reports
// objects that were destroyed after the call that requested it. The last line is a Tail; if it is
// missing, the program or its worker exited first.
//
//	{"trace":1,"pid":4711,"session":3,"begun":"2026-01-02T15:04:05Z"}
//	{"have":{"kind":"context","id":1},"call":"cuDevicePrimaryCtxRetain"}
//	{"n":1,"us":5120,"call":"cuMemAlloc_v2","context":1,"thread":0,"makes":[{"kind":"memory","address":"0x410000000000","bytes":4096,"owner":"context 1"}]}
//	{"n":2,"us":5190,"call":"launch","context":1,"thread":0,"uses":[{"as":"function","kind":"function","id":4},{"as":"params+8","kind":"memory","address":"0x410000000000","bytes":4096}]}
//	{"n":3,"us":5200,"call":"cuStreamDestroy_v2","context":1,"thread":0,"uses":[...],"ends":[{"kind":"stream","id":3}]}
//	{"calls":3}
//
// Objects under "uses" have the name of the call's argument. Memory with the name "params+8" was
// found in the parameters of a kernel: the value at that offset looks like an address of live
// memory. A trace is for people; no checkpoint depends on it.
//
// The package knows nothing about sessions. Read Log; package session writes to it.
package trace
