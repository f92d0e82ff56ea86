// Package trace is the record of which calls of a program make, use and end which objects: JSON,
// one object a line.
//
// The first line is a Head. Have lines follow, one for each object that there is already. Then
// comes a Call line for each call that arrives, in the order in which they are carried out; one
// without a name tells what ended later than the call that asked for it. The last line is a Tail:
// without it, the program or its worker ended first.
//
//	{"trace":1,"pid":4711,"session":3,"begun":"2026-01-02T15:04:05Z"}
//	{"have":{"kind":"context","id":1},"call":"cuDevicePrimaryCtxRetain"}
//	{"n":1,"us":5120,"call":"cuMemAlloc_v2","context":1,"thread":0,"makes":[{"kind":"memory","address":"0x410000000000","bytes":4096,"owner":"context 1"}]}
//	{"n":2,"us":5190,"call":"launch","context":1,"thread":0,"uses":[{"as":"function","kind":"function","id":4},{"as":"params+8","kind":"memory","address":"0x410000000000","bytes":4096}]}
//	{"n":3,"us":5200,"call":"cuStreamDestroy_v2","context":1,"thread":0,"uses":[...],"ends":[{"kind":"stream","id":3}]}
//	{"calls":3}
//
// What stands under uses is named as the argument in the call; memory among the bytes for a kernel
// ("params+8") is what looks like an address of living memory. It is a way of looking, and nothing
// that a checkpoint relies on.
//
// The package knows nothing of sessions. Read Log; package session fills it.
package trace
