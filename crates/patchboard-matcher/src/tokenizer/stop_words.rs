//! Words that say little about a topic.

/// Grammar, politeness and ways of asking.
pub(super) const FUNCTION_WORDS: &str = "\
a an the this that these those there here it its itself i me my mine myself we us our ours you your yours yourself he \
him his she her hers they them their theirs someone somebody anyone anybody everyone one ones \
and or but nor so if then than because as while until though although whether \
of to in on at by for from with without within into onto over under about above below between through during before \
after since off out up down near around per via \
is am are was were be been being do does did doing done have has had having can could will would shall should may might \
must ought gonna wanna gotta \
not no any some all both each every either neither much many more most less least few lot lots several such same \
other another else own only just also too very really quite still yet already even ever again now well rather pretty \
what which who whom whose when where why how whatever whichever \
please pls plz thanks kindly hey ok okay oh um uh hm hmm \
want like need wish hope let lets go going come get gets got getting tell show give gimme help know see look say \
think think wondering wonder able sure maybe actually currently possible \
im ive id ill dont doesnt isnt arent wasnt didnt cant couldnt wont whats hows whos wheres thats theres \
etc ie eg vs via \
el la los las un una unos unas de del al y o que en con por para mi tu su se me te lo le es son como cual donde cuando \
der die das den dem des ein eine einen einem einer und oder aber ist sind war bin bist hat haben kann kannst ich du er \
sie wir ihr mich mir dich dir mein meine meinen dein deine nicht kein keine zu zum zur mit von vom fuer auf aus bei nach \
im am wie was wo wann wer bitte mal doch noch auch \
le les une des du et ou mais est sont suis je tu il elle nous vous ils mon ma mes ton ta tes son sa ses ce cette ces que \
qui quoi dans sur avec pour par pas ne plus au aux s'il plait \
che di il lo gli uno della e con per mio mia sono";

/// Words that fit any topic, and words that most apps use to describe themselves.
pub(super) const VAGUE_WORDS: &str = "\
thing things something anything everything stuff way kind type sort part lot bit info information detail details \
make makes making made use uses using used take takes taking put set sets keep keeps find finds finding check \
checks checking try trying start started starts begin stop stops end change changes changing changed new old good best \
better great nice bad right wrong big small large little long short high low first last next previous current recent \
latest recently today tomorrow yesterday tonight morning afternoon evening night week weekend day days month year years minute \
minutes hour hours second seconds soon later monday tuesday wednesday thursday friday saturday sunday january february \
march april june july august september october november december noon midnight \
name names number numbers list lists item items add adds adding added remove removes delete create creates \
handle handles handling manage manages manages managing management deal deals assist assists assistant assistants app \
apps application tool tools service services provide provides offer offers support supports allow allows enable \
enables let lets letting answer answers answering question questions request requests user users person people \
related relating regarding concerning including include includes various everyday general common simple basic quick \
quickly easy easily different special specific whole entire possible available able based \
look looking show shows showing see sees seeing give gives giving get gets getting tell tells telling ask asks asking \
say says saying work works working run runs running open opens close closes turn turns turning bring brings leave \
happen happens happening mean means call calls plan plans planning problem problems issue issues status update updates \
updated care cares track tracks tracking organize organizes organise control controls monitor guide guides \
place places area where local nearby nearest close closest around \
two three four five six seven eight nine ten hundred thousand couple dozen";

/// Words whose `'s` is a verb; after any other it is a genitive.
pub(super) const HEADS_BEFORE_IS: &[&str] =
    &["what", "how", "who", "where", "when", "why", "that", "it", "there", "here", "he", "she", "whats"];

/// Contractions written without their apostrophe.
pub(super) const CONTRACTIONS: &[(&str, &str)] = &[
    ("arent", "are not"),
    ("cannot", "can not"),
    ("cant", "can not"),
    ("couldnt", "could not"),
    ("didnt", "did not"),
    ("doesnt", "does not"),
    ("dont", "do not"),
    ("gimme", "give me"),
    ("gonna", "going to"),
    ("gotta", "got to"),
    ("hows", "how is"),
    ("im", "i am"),
    ("isnt", "is not"),
    ("ive", "i have"),
    ("pls", "please"),
    ("thats", "that is"),
    ("theres", "there is"),
    ("thx", "thanks"),
    ("u", "you"),
    ("ur", "your"),
    ("wanna", "want to"),
    ("wasnt", "was not"),
    ("whats", "what is"),
    ("wheres", "where is"),
    ("whos", "who is"),
    ("wont", "will not"),
    ("youre", "you are"),
];
