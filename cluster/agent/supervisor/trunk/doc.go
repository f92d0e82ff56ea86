// Package trunk is the parent of the processes of an attempt, where these are to be one tree: CRIU
// saves a tree, with the connections inside of it, in one instant.
//
// A trunk is the agent's own program, started again by a supervisor with the argument Role; its
// main function calls Main then. It runs as the user of the processes, in their cgroup, and starts
// them with the streams that the supervisor has opened for each. After each change it writes a
// Report of all processes, which the supervisor reads. It adopts what is orphaned below it, so that
// this is saved, too. It ignores signals that ask it to end, and ends when its processes have.
//
// A trunk is saved with its processes and does not learn of that. So it keeps every stream open
// under a number that the restored trunk has as well: those are how the pipes of one supervisor
// take the place of those of another. Nothing else that leads out of the tree is open.
//
// The kernel kills the processes if the trunk is killed. A user can forge what the trunk of its own
// processes tells, as it can end these processes.
//
// Tested by package supervisor, and with CRIU by tests/cluster. Read order.go.
package trunk
