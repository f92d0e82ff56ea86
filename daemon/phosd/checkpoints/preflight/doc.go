// Package preflight finds out whether an image can be restored on this machine, and names
// everything that stands against it at once. It starts nothing and changes nothing. What stands
// against saving a program is found by package criu.
package preflight
