package apikey

import (
	"maps"
	"slices"
	"strings"
	"unicode"
)

// Bounds of the terms by which an index finds a key.
const (
	searchWords = 16                         // words of a name
	searchRunes = len("key-") + PrefixLength // characters of a term
)

// SearchText returns the form of a search text that is compared: in lower case, without space
// at its ends.
func SearchText(text string) string { return strings.ToLower(strings.TrimSpace(text)) }

// Found reports whether a key is found by a text in the form of [SearchText]: the text is the
// beginning of one of the first 16 words of the name, or of the ID with or without "key-".
// Case does not matter. The text may go beyond the end of the word.
func (k Key) Found(text string) bool {
	idOnly := len(text) > len("key-") && strings.HasPrefix(string(k.ID()), text)
	return idOnly || strings.HasPrefix(string(k.Prefix), text) ||
		slices.ContainsFunc(words(k.Name), func(word string) bool { return strings.HasPrefix(word, text) })
}

// SearchTerms returns the terms of a key in an index, sorted: the beginnings of at most 12
// characters that [Key.Found] accepts.
func (k Key) SearchTerms() []string {
	terms := map[string]bool{}
	for n := range k.Prefix {
		terms[string(k.Prefix[:n+1])], terms[string(k.ID()[:len("key-")+n+1])] = true, true
	}
	for _, word := range words(k.Name) {
		runes := []rune(word)
		for n := range min(len(runes), searchRunes) {
			terms[string(runes[:n+1])] = true
		}
	}
	return slices.Sorted(maps.Keys(terms))
}

// SearchTerm returns the term of an index by which keys are looked up that a text finds. The
// index may return other keys too, if the text is longer.
func SearchTerm(text string) string {
	runes := []rune(text)
	return string(runes[:min(len(runes), searchRunes)])
}

// words returns the rest of a name from each of its first words on, in lower case. A word
// begins at a letter or digit after another character, and after a space.
func words(name string) (rests []string) {
	name = strings.ToLower(name)
	word, space := false, true // the previous character
	for i, c := range name {
		in := unicode.IsLetter(c) || unicode.IsDigit(c)
		if !unicode.IsSpace(c) && (space || in && !word) && len(rests) < searchWords {
			rests = append(rests, name[i:])
		}
		word, space = in, unicode.IsSpace(c)
	}
	return rests
}
