package api

import "time"

// LeaderKey is the key of the trailer in which a controller that does not lead names the address of
// the one that does.
const LeaderKey = "phos-leader"

// KeepAlive is how often an idle connection is tested.
const KeepAlive = 10 * time.Second

// ControllerSocket is the default path of a controller's socket, for people on its machine.
const ControllerSocket = "/run/phos/controller.sock"

// ClusterVariable is the environment variable with another socket, or with HOST:PORT.
const ClusterVariable = "PHOS_CLUSTER"
