// Package reach connects a command to the cluster that its user means: the one that PHOS_CLUSTER
// names, else the controller on this machine, else the one in the user's file (cluster/identity/
// access).
package reach
