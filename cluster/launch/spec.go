package launch

import "time"

// Spec describes a launch. Its JSON form is what the store keeps and what crosses the network; a
// launch file in TOML has the same names. Check fills in what was left out.
type Spec struct {
	Name        string `json:"name,omitempty"`
	Description string `json:"description,omitempty"`
	// Jobs start together or not at all.
	Jobs []Job `json:"jobs"`
	// Place says on which nodes it may run.
	Place Place `json:"place,omitzero"`
	// Queue says what happens if the cluster has no room now.
	Queue Queue `json:"queue,omitempty"`
	// Priority is higher for more urgent launches. 0 is normal.
	Priority int `json:"priority,omitempty"`
	// TimeLimit ends the launch that has run for so long; 0: never. Waiting does not count.
	TimeLimit Duration `json:"time_limit,omitempty"`
	// After are launches that must have completed before this one is queued.
	After []string `json:"after,omitempty"`
	// Restartable means that its processes may be stopped and started from their beginning wherever
	// they cannot be saved.
	Restartable bool `json:"restartable,omitempty"`
	// Source is the code that each process finds in its working directory.
	Source Source `json:"source,omitzero"`
	// Variables are set for every process.
	Variables map[string]string `json:"env,omitempty"`
	// Checkpoint says when its processes are saved.
	Checkpoint Checkpoint `json:"checkpoint,omitzero"`
	// Network says which network its replicas have; empty: that of their nodes.
	Network Network `json:"network,omitempty"`
	// Array starts one launch for each combination of the values of its parameters. A parameter is
	// an environment variable, and replaces {NAME} in commands.
	Array map[string][]Value `json:"array,omitempty"`
}

// Job is a number of replicas of the same processes.
type Job struct {
	Name string `json:"name"`
	// Replicas is how many there are. A range starts with the least, and more join as there is
	// room.
	Replicas Replicas `json:"replicas,omitzero"`
	// Processes are those of one replica. They run on one node.
	Processes []Process `json:"processes"`
	// OnReplicaFailure says what becomes of the others when a replica has failed for good.
	OnReplicaFailure OnFailure `json:"on_replica_failure,omitempty"`
	// Retries is how often a failed replica is started again.
	Retries int `json:"retries,omitempty"`
	// RetryOn are the exit codes after which it is started again; none: all but 0.
	RetryOn []int `json:"retry_on,omitempty"`
	// Variables are set for the processes of this job.
	Variables map[string]string `json:"env,omitempty"`
}

// Process is one process of a replica.
type Process struct {
	// Command is executed without a shell.
	Command []string `json:"command"`
	// Directory is relative to the working directory that holds the source.
	Directory string            `json:"dir,omitempty"`
	Variables map[string]string `json:"env,omitempty"`
	Resources Resources         `json:"resources,omitzero"`
	// Ports are names of TCP ports that the node reserves. PHOS_PORT_NAME holds the number.
	Ports []string `json:"ports,omitempty"`
}

// Resources are what a process gets. What is 0 is not limited, but for GPUs: 0 is none.
type Resources struct {
	CPUs   CPUs  `json:"cpus,omitempty"`
	Memory Bytes `json:"memory,omitempty"`
	GPUs   int   `json:"gpus,omitempty"`
	// GPUModels are the models that will do; none: any.
	GPUModels []string `json:"gpu_models,omitempty"`
	// GPUMemory is the least memory of each GPU.
	GPUMemory Bytes `json:"gpu_memory,omitempty"`
}

// Place restricts a launch to nodes.
type Place struct {
	Cluster string `json:"cluster,omitempty"`
	Shard   string `json:"shard,omitempty"`
	// Hostnames are the only nodes that may be used; none: all.
	Hostnames []string `json:"hostnames,omitempty"`
	// WholeNodes means that no other launch runs on the nodes of this one.
	WholeNodes bool `json:"whole_nodes,omitempty"`
}

// Source is where the code of a launch comes from: nowhere, a directory or a git repository.
type Source struct {
	// Directory is the caller's directory, whose content is sent.
	Directory string `json:"dir,omitempty"`
	Git       string `json:"git,omitempty"`
	Branch    string `json:"branch,omitempty"`
	// Commit is the full name of a commit; empty: the branch's newest.
	Commit string `json:"commit,omitempty"`
}

// Checkpoint says when the processes of a launch are saved.
type Checkpoint struct {
	// Every is the time between two saves while it runs; 0: there are none.
	Every Duration `json:"every,omitempty"`
	// On are the occasions on which it is saved and stopped, instead of only stopped; none: all.
	On []string `json:"on,omitempty"`
	// Keep is how many generations of an attempt's image stay; 0: three, as for
	// programs of one machine.
	Keep int `json:"keep,omitempty"`
	// Directory is shared by the nodes; empty: each node keeps images of its own.
	Directory string `json:"dir,omitempty"`
}

// Value is one value of a parameter: text, or a number as it is written.
type Value string

// Queue says what happens to a launch for which there is no room.
type Queue string

// What may happen to a launch for which there is no room.
const (
	// Wait queues it.
	Wait Queue = "wait"
	// Refuse ends it with an error that says what is missing.
	Refuse Queue = "refuse"
)

// Network says which network the replicas of a launch have.
type Network string

// The networks of replicas.
const (
	// HostNetwork is that of their nodes.
	HostNetwork Network = "host"
	// OwnNetwork gives each replica an address of its own, which it keeps when it goes on on another
	// node. Connections between replicas are saved with them.
	OwnNetwork Network = "own"
)

// MaxAddresses is how many replicas a launch with a network of its own can have.
const MaxAddresses = 253

// OnFailure says what becomes of the other replicas of a launch when one has failed for good.
type OnFailure string

// What may become of the other replicas.
const (
	// StopOthers stops them, and the launch has failed.
	StopOthers OnFailure = "stop"
	// KeepOthers lets them run. The launch has failed when all have ended.
	KeepOthers OnFailure = "continue"
)

// Duration is a time as text: 90s, 12h, 7d.
type Duration time.Duration

// Bytes is a size as text: 512MiB, 80GiB.
type Bytes uint64

// CPUs is a number of CPUs in thousandths. Its text is decimal: 2, 0.5.
type CPUs uint64

// Replicas is a number of replicas, or a range of them. Its text is N or MIN..MAX.
type Replicas struct{ Min, Max int }

// Elastic reports whether the number of replicas may change while the launch runs.
func (r Replicas) Elastic() bool { return r.Min != r.Max }
