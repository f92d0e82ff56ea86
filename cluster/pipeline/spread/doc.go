// Package spread puts the copies of each layer on several machines, where nodes share one and are
// lost together.
//
// It begins with an assignment of nodes to places that is good otherwise, and exchanges the nodes
// of two places as long as layers are on more machines then. Of equal exchanges it takes the one
// that sends the fewest bytes.
package spread
