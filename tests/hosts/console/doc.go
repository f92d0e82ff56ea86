// Command console makes hosts of this machine, for a script. Its standard input has orders, one a
// line:
//
//	boot HOST
//	kill HOST
//	run HOST SCRIPT
//
// A script of bash runs as root on the host, with the console's output. Each order is answered by a
// line of descriptor 3: the exit status; one more comes when the hosts have booted. The hosts see
// the directories that its arguments name, and end with the input, or with the console.
//
// scripts/demo-cluster.sh uses it. Read main.go.
package main
