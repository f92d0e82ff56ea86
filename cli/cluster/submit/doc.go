// Package submit has the verb launch: it makes a description of a file or of the command line,
// packs the caller's directory, and hands both to the cluster. The verbs about launches that exist
// are in cli/cluster/launches. cli/launch is another thing: pos_cli run, without a cluster.
//
// cluster/launch says what a description is and checks it, here and again in the controller;
// cli/cluster/code packs. Read verb.go, then describe.go. Tested by cli/pos_cli.
package submit
