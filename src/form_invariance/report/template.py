"""The page's HTML, as a Jinja template."""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>
body {
  font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff;
  margin: 0 auto; max-width: 62rem; padding: 1rem;
}
h1 { font-size: 1.6rem; } h2 { margin-top: 2.5rem; border-top: 2px solid #ddd; padding-top: 1rem; }
h3 { margin-bottom: .2rem; } nav a { margin-right: 1rem; }
figure { margin: 1rem 0; } figure img { width: 100%; height: auto; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid #ddd; padding: .15rem .7rem .15rem 0; text-align: right; }
th:first-child, td:first-child { text-align: left; } thead th { border-bottom: 2px solid #999; }
details { margin: .5rem 0; } summary { cursor: pointer; }
pre { background: #f5f5f5; padding: .6rem; overflow-x: auto; font-size: .8rem; }
</style>
</head>
<body>
<h1>{{ title }}</h1>
<p>Every sentence and every number here is computed from the tables in <code>results</code>.</p>
<nav aria-label="Sections">
{% for model in models %}<a href="#{{ model.name }}">{{ model.name }}</a>
{% endfor %}<a href="#truth">Ground truth</a>
<a href="#compared">Side by side</a>
{% if paper %}
<a href="#paper">Beside the paper</a>
{% endif %}
<a href="#methods">Methods and provenance</a>
</nav>
{% macro answered(answer, of) %}
<h3>{{ answer.question }}</h3>
<p>{{ answer.sentence }}</p>
{% for figure in answer.figures %}
<figure><img src="{{ figure.data }}" alt="{{ of }}: {{ figure.name }}"></figure>
{% endfor %}<details><summary>Table</summary><div class="scroll">{{ answer.table }}</div></details>
{% endmacro %}
{% for model in models %}
<h2 id="{{ model.name }}">{{ model.name }}</h2>
{% if model.browser %}
<p><a href="browser/{{ model.name|urlencode }}.html">Look at its shared neurons</a></p>
{% endif %}
{% for answer in model.answers %}{{ answered(answer, model.name) }}{% endfor %}
{% endfor %}
<h2 id="truth">Ground truth</h2>
{{ answered(truth, "Ground truth") }}
<h2 id="compared">Side by side</h2>
{% for figure in compared %}<figure><img src="{{ figure.data }}" alt="{{ figure.name }}"></figure>
{% endfor %}
{% if paper %}
<h2 id="paper">Beside the paper</h2>
<p>For the paper's models, the paper's numbers are in columns of their own.</p>
{% for table in paper %}
<details><summary>{{ table.name }}</summary><div class="scroll">{{ table.html }}</div></details>
{% endfor %}
{% endif %}
<h2 id="methods">Methods and provenance</h2>
<p>{{ methods }}</p>
<h3>Run times</h3>
<div class="scroll">{{ times }}</div>
<h3>Configuration</h3>
<details><summary>YAML</summary><pre>{{ configuration }}</pre></details>
</body>
</html>
"""
