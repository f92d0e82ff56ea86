// Package restored keeps track of restored process trees. A tree's name is the name of its
// restorer's socket, which also names the tree's owner. A tree is known for a while after it has
// ended, so that a pos_cli that follows it through a restart of phosd still gets its exit status.
//
// Package ckpt does the restore. A restorer (criu/restorer) stays the parent of the restored tree.
// Read Trees.
package restored
