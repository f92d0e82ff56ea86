// Package streams handles the calls about streams and events, also events that other sessions
// share, and about functions of the program that streams run. Tested by the tests of package
// session, whose comment lists the locks.
package streams
