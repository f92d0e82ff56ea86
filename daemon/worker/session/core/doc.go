// Package core is what all topics of a session share: the session's lock, the object graph,
// devices, contexts and streams with the order between them, calls, and the encoder and decoder of
// a saved session. Read Core, Topic and Stream first.
//
// The locks are listed in package session. Tested by the tests of package session.
package core
