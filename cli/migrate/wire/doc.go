// Package wire is what the two pos_cli of a migration say to each other, over the standard input
// and output of the one on the other machine: lines of JSON in both directions, and images as
// streams behind the source's lines.
//
//	source                                    target
//	hello: what is wanted             ──▶
//	                                  ◀──     welcome: the move's name, its room
//	head: a stream without memory     ──▶
//	                                  ◀──     checked, or failed with what is in the way
//	round: a stream, again and again  ──▶
//	                                  ◀──     taken
//	     the program stands still
//	last: a stream                    ──▶
//	                                  ◀──     ready: it is restored there, frozen
//	     the program ends here
//	go                                ──▶
//	                                  ◀──     running, then loaded
//	bye                               ──▶
//
// At any time the target may say failed, step or notice; it says alive while it works. The one that
// the other does not hear of undoes what it has done, until the source has sent go. If the source
// gets no answer to that, it asks: it connects again, with hello and Ask, and says bye to the
// answer.
//
// Read message.go first.
package wire
