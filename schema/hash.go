package schema

// Do two nodes say the same? They do if their hashes are equal. For example, the order of required does not matter, and a description does
// not, either.
//
// A hash is of the meaning and not of the text, and it includes the hashes of the children. So the comparison of two
// versions of a large CRD only visits what differs.

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"math"
	"slices"
)

// computeHash computes the hash from the node's own keywords and its children's hashes. It writes every part with a tag and a length, so
// that different schemas never write the same bytes.
func (n *Node) computeHash() Hash {
	var b buf
	b.appendString('t', n.Type)
	b.appendFlag('n', n.Nullable)
	b.appendFlag('i', n.IntOrString)
	b.appendFlag('u', n.PreserveUnknown)
	b.appendFlag('e', n.Embedded)
	if n.HasDefault {
		b.appendJSON('d', n.Default)
	}
	for _, v := range n.Enum {
		b.appendJSON('E', v)
	}
	b.appendString('f', n.Format)
	b.appendString('p', n.Pattern)
	b.appendInt('l', n.MinLength)
	b.appendInt('L', n.MaxLength)
	b.appendFloat('m', n.Minimum)
	b.appendFloat('M', n.Maximum)
	b.appendFlag('x', n.ExclusiveMinimum)
	b.appendFlag('X', n.ExclusiveMaximum)
	b.appendFloat('*', n.MultipleOf)
	b.appendChild('I', n.Items)
	b.appendInt('a', n.MinItems)
	b.appendInt('A', n.MaxItems)
	b.appendFlag('q', n.UniqueItems)
	for _, p := range n.Properties {
		b.appendString('P', p.Name)
		b.appendChild('c', p.Node)
	}
	b.appendChild('+', n.Additional)
	if n.AdditionalBool != nil {
		b.appendFlag('1', *n.AdditionalBool)
		b.appendFlag('0', !*n.AdditionalBool)
	}
	for _, r := range n.Required {
		b.appendString('r', r)
	}
	b.appendInt('o', n.MinProperties)
	b.appendInt('O', n.MaxProperties)
	b.appendChildren('&', n.AllOf)
	b.appendChildren('|', n.AnyOf)
	b.appendChildren('^', n.OneOf)
	b.appendChild('!', n.Not)
	b.appendString('T', n.ListType)
	for _, k := range n.ListMapKeys {
		b.appendString('K', k)
	}
	b.appendString('g', n.MapType)
	for _, r := range n.Rules {
		b.appendString('R', r.Rule)
		if r.OptionalOldSelf != nil && *r.OptionalOldSelf {
			b.appendFlag('S', true)
		}
	}
	for _, o := range n.Odd {
		b.appendString('?', o)
	}
	b.appendString('%', string(n.odd))
	full := sha256.Sum256(b.b)
	return Hash(full[:16])
}

type buf struct{ b []byte }

// appendString appends a text under its tag. A missing keyword writes nothing, so most nodes write few bytes. The
// entries of lists (properties, required, keys, rules) are written even if they are empty: otherwise [""] and []
// would hash alike.
func (b *buf) appendString(tag byte, s string) {
	if s == "" {
		if tag == 'P' || tag == 'r' || tag == 'K' || tag == 'R' {
			b.b = append(b.b, tag, 0)
		}
		return
	}
	b.b = append(b.b, tag)
	b.b = binary.AppendUvarint(b.b, uint64(len(s)))
	b.b = append(b.b, s...)
}

// appendFlag appends the tag if the flag is set, and nothing if not.
func (b *buf) appendFlag(tag byte, v bool) {
	if v {
		b.b = append(b.b, tag)
	}
}

// appendInt appends a bound under its tag; nil, a keyword that is absent, writes nothing.
func (b *buf) appendInt(tag byte, v *int64) {
	if v != nil {
		b.b = binary.AppendVarint(append(b.b, tag), *v)
	}
}

// appendFloat appends the bits of a bound, so that two texts of one number hash alike.
func (b *buf) appendFloat(tag byte, v *float64) {
	if v != nil {
		b.b = binary.BigEndian.AppendUint64(append(b.b, tag), math.Float64bits(*v))
	}
}

// appendChild appends the hash of a child, which has been computed before that of its parent.
func (b *buf) appendChild(tag byte, n *Node) {
	if n != nil {
		b.b = append(append(b.b, tag), n.hash[:]...)
	}
}

// appendChildren appends the hashes of the branches of a junctor, sorted, after their number: two schemas that list
// the same branches in another order accept the same values.
func (b *buf) appendChildren(tag byte, ns []*Node) {
	if len(ns) == 0 {
		return
	}
	hs := make([][]byte, len(ns))
	for i, n := range ns {
		hs[i] = n.hash[:]
	}
	slices.SortFunc(hs, bytes.Compare) // the order of junctors does not matter
	b.b = binary.AppendUvarint(append(b.b, tag), uint64(len(ns)))
	for _, h := range hs {
		b.b = append(b.b, h...)
	}
}

// appendJSON appends a decoded value under its tag.
func (b *buf) appendJSON(tag byte, v any) { b.b = AppendValue(append(b.b, tag), v) }

// AppendValue appends bytes to b that identify the decoded JSON value v. The API server distinguishes 1 and 1.0, so their bytes
// differ at any depth. The bytes of one value are never a prefix of another's.
func AppendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, 'n')
	case bool:
		if v {
			return append(b, 't')
		}
		return append(b, 'f')
	case int64:
		return binary.AppendVarint(append(b, 'i'), v)
	case float64:
		return binary.BigEndian.AppendUint64(append(b, 'd'), math.Float64bits(v))
	case string:
		return append(binary.AppendUvarint(append(b, 's'), uint64(len(v))), v...)
	case []any:
		b = binary.AppendUvarint(append(b, 'l'), uint64(len(v)))
		for _, x := range v {
			b = AppendValue(b, x)
		}
	case map[string]any:
		b = binary.AppendUvarint(append(b, 'm'), uint64(len(v)))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			b = append(binary.AppendUvarint(b, uint64(len(k))), k...)
			b = AppendValue(b, v[k])
		}
	}
	return b
}
