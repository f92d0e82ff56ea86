// Package background starts and stops the daemons of phos: phosd, phos-controller and phos-agent. A
// daemon says on a pipe that it serves, or why it does not; its process is recorded in a file, so
// that a later command can stop it. Daemons that systemd has started have no record.
package background
