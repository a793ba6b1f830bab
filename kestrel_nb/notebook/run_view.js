function render({model}){ model.send({type:"ready"}); } export default {render};
