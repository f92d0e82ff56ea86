// Package session is the leader's end of what it says to one agent: the messages of the stream, and
// the questions that the agent answers by streams of their own.
//
// Read session.go.
package session
