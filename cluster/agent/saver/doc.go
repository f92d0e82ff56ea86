// Package saver saves and restores the processes of launches through phosd, with the rights of
// their owner: phosd believes the kernel about its caller, and opens no path that one names.
//
// Each save and each restore is a process of its own, the agent's program started again with a
// role; its main function calls SaveMain or RestoreMain then. A save is the agent's child, and ends
// with the answer. If it is killed, phosd undoes the save. A restore is the supervisor's child, in
// place of the process or the trunk that it brings back: phosd restores the tree into the cgroup of
// its caller, which is that of the attempt. It stays as long as the tree runs, and ends as the root
// of the tree does, so that a supervisor sees no difference. A restarted phosd adopts the tree, and
// the restore reattaches to it.
//
//	order.go    what the roles are told, and what they answer
//	client.go   the agent's side
//	key.go      the keys by which nodes know images of each other
//	save.go     the role that saves
//	restore.go  the role that restores
//	follow.go   how a restored tree ends
//
// Read order.go. tests/cluster restores images on other nodes.
package saver
