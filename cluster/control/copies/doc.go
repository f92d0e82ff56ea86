// Package copies decides on which nodes images are kept besides those that have taken them: so many
// copies as the cluster is configured for, and one elsewhere of what is on a drained node alone. It
// decides from what it is told, and talks to no node.
//
// Read Chooser.Look.
package copies
