// Package tcpport frees TCP ports of programs that have ended. The kernel keeps the port of a
// connection that was closed in order for a minute (TIME_WAIT), and until then it refuses it to a
// listener that did not ask to share it. A program that is restored where it was has to listen
// again at once.
//
// Unplug keeps connections of a program from leaving anything behind; Free removes what earlier
// connections have left.
package tcpport
