// Package supervisor runs the processes of one attempt of one replica, and outlives the agent that
// started it.
//
// A supervisor is a process for each attempt: the parent of the replica's processes, outside their
// cgroup. It starts them in the cgroup as their user, keeps what they print (package
// cluster/linelog), and notes how they end. It ends what is left: SIGTERM to all processes of
// the cgroup, a grace, then SIGKILL until the cgroup is empty. It holds a deadline. If no agent
// extends that in time, it kills the cgroup at once: a node that is cut off stops by itself.
//
// All that an agent must know later is in the attempt's run directory, for root alone:
//
//	order.json   what to run, written by Start
//	status.json  what runs, and how it ended
//	socket       requests to the supervisor
//	log/         what the processes have printed
//	supervisor.log  what went wrong in the supervisor itself
//
// The directory is locked as long as a supervisor lives, from before its start. An agent that was
// restarted calls Adopt, which reaches the supervisor by its socket. If the supervisor was killed,
// Adopt kills what is left in the cgroup, and notes the end. After a boot nothing is left. The
// kernel kills the processes of a supervisor that is killed, but not their children: these run
// without a deadline until an agent adopts the attempt.
//
// Where the processes must be one tree, so that they can be saved together, the supervisor has one
// child instead: their trunk (package trunk), which starts them and tells how they end (trunk.go).
//
// A supervisor also starts commands beside its processes (exec.go). Such a command lives no longer
// than the connection by which the agent has asked for it.
//
// A supervisor is the agent's own program, started again with the argument Role; its main function
// calls Main then. The package knows nothing of networks, stores and other nodes. Read spec.go
// first, then client.go for the agent's side and serve.go for the supervisor's.
//
// # Locking
//
// In a supervisor, execs.starting is taken before children.mu, and that before course.mu. fence.mu
// and output.mu are leaves: no other lock of this package is taken under them.
package supervisor
